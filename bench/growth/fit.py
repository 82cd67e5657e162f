"""A model of cost by least squares, of n ranks and s bytes: t = a + b log2(n) + c n + d n^2 + (e + f n + g n^2) s.
The squares are for ranks that share cores: each looks at what n ranks show, and n of them take turns.

Errors count relative to the time, since times span decades. No term may be negative: nothing gets
cheaper by more work, and where a fit says so it follows noise. Of all the subsets of terms the one with the
least Bayesian information criterion is kept, so a term is there only if it explains something.
"""

import itertools
import math

TERMS = {
    "1": lambda n, s: 1.0,
    "log2 n": lambda n, s: math.log2(n),
    "n": lambda n, s: float(n),
    "n^2": lambda n, s: float(n) ** 2,
    "KiB": lambda n, s: s / 1024,
    "n KiB": lambda n, s: n * s / 1024,
    "n^2 KiB": lambda n, s: n * n * s / 1024,
}


def _solve(matrix, right):
    """Gauss with pivots; None where there is no single solution."""
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        if abs(rows[pivot][i]) < 1e-12 * max(map(abs, rows[pivot][:size]), default=0) or rows[pivot][i] == 0:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(size):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def _least_squares(points, names):
    columns = [[TERMS[name](n, s) / t for n, s, t in points] for name in names]
    normal = [[sum(x * y for x, y in zip(p, q)) for q in columns] for p in columns]
    return _solve(normal, [sum(column) for column in columns])


class Model:
    def __init__(self, coefficients, error):
        self.coefficients = coefficients  # By term.
        self.error = error                # Root mean square of the relative errors.

    def predict(self, n, s):
        return sum(c * TERMS[name](n, s) for name, c in self.coefficients.items())

    def __str__(self):
        parts = ["%.3g%s" % (c, "" if name == "1" else " " + name) for name, c in self.coefficients.items()]
        return "t = " + " + ".join(parts)


def fit(points):
    """`points` are (ranks, bytes, microseconds)."""
    best = None
    for count in range(1, len(TERMS) + 1):
        for names in itertools.combinations(TERMS, count):
            if count >= len(points):
                continue
            solution = _least_squares(points, names)
            if solution is None or min(solution) <= 0:
                continue
            model = Model(dict(zip(names, solution)), 0)
            square = sum((model.predict(n, s) / t - 1) ** 2 for n, s, t in points)
            model.error = math.sqrt(square / len(points))
            score = len(points) * math.log(max(square, 1e-12)) + count * math.log(len(points))
            if best is None or score < best[0]:
                best = (score, model)
    return best[1] if best else None
