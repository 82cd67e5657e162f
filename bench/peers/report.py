"""What compare.py prints: a table with ratios, a warning where the machine was too noisy, and an SVG."""

import math
import os

NOISY = 0.3  # Rounds whose middle half spans more than this of their median.


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > 0.5:
        print("# this machine was busy before: a load of %.1f on %d cores in the last minute" % (load, os.cpu_count()))


def size_label(size):
    for unit in ("", "Ki", "Mi", "Gi"):
        if size % 1024 != 0 or unit == "Gi":
            return "%d %sB" % (size, unit)
        size //= 1024


def cell(library, size):
    median = library.median(size)
    if not median:
        return "-"
    return "%.2f%s" % (median, " ~" if library.spread(size) > NOISY else "")


def ratio(peers, own):
    return "%.2f%s" % (min(peers) / own, "" if own <= min(peers) else " (loses)")


def table(found, sizes, rounds):
    print("| size | " + " | ".join(l.name for l in found) + " | best peer / comm | best peer / symmetric |")
    print("|---" * (len(found) + 3) + "|")
    for size in sizes:
        peers = [l.median(size) for l in found[2:] if l.median(size)]
        ratios = [ratio(peers, l.median(size)) if peers else "-" for l in found[:2]]
        print("| %s | %s | %s |" % (size_label(size), " | ".join(cell(l, size) for l in found), " | ".join(ratios)))
    noisy = sum(l.spread(size) > NOISY for l in found for size in sizes)
    if rounds < 3:
        print("# fewer than 3 rounds: nothing is known of the noise")
    elif noisy:
        print("# ~ %d of %d figures are noisy: the middle half of their rounds spans more than %d %% of the median. "
              "Do not trust them; run again on a quieter machine, or with more rounds."
              % (noisy, len(found) * len(sizes), NOISY * 100))


def svg(found, sizes, title):
    width, height, left, top = 760, 420, 60, 40
    values = [l.median(s) for l in found for s in sizes if l.median(s)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    def x(s): return left + (math.log2(s / sizes[0])) / max(1, math.log2(sizes[-1] / sizes[0])) * (width - left - 150)
    def y(v): return height - 40 - (math.log10(v) - low) / max(1, high - low) * (height - 40 - top)
    out = ["<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='12'>"
           % (width, height), "<rect width='100%' height='100%' fill='white'/>",
           "<text x='%d' y='22' font-size='15'>%s: time (p50, us) against size</text>" % (left, title)]
    for power in range(low, high + 1):
        out.append("<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%d' y='%.1f' text-anchor='end'>%g</text>"
                   % (left, width - 150, y(10 ** power), y(10 ** power), left - 6, y(10 ** power) + 4, 10 ** power))
    for s in sizes[::max(1, len(sizes) // 8)]:
        out.append("<text x='%.1f' y='%d' text-anchor='middle'>%s</text>" % (x(s), height - 18, size_label(s)))
    colors = ["#d1242f", "#bc4c00", "#1f6feb", "#1a7f37", "#8250df", "#57606a"]
    for i, l in enumerate(found):
        points = " ".join("%.1f,%.1f" % (x(s), y(l.median(s))) for s in sizes if l.median(s))
        out.append("<polyline fill='none' stroke='%s' stroke-width='2' points='%s'/>" % (colors[i % 6], points))
        out.append("<text x='%d' y='%d' fill='%s'>%s</text>" % (width - 140, top + 20 + 18 * i, colors[i % 6], l.name))
    return "\n".join(out + ["</svg>\n"])
