"""The fenced blocks of Markdown files: where they are, what language they say they are in.

    snippets.py DOCUMENT    prints the document's first C++ program
"""

import re
import sys
import typing

FENCE = re.compile(r"^(\s*)(```+)\s*(\S*)\s*$")


class Snippet(typing.NamedTuple):
    document: str
    line: int  # Of the first line of code.
    language: str
    code: str

    @property
    def place(self):
        return "%s:%d" % (self.document, self.line)


def snippets_of(document, text):
    """Raises ValueError where a block has no end, or is indented instead of fenced and so has no
    language."""
    found = []
    start = None
    before = ""  # The line before, and whether we are in a list, whose items go on indented.
    in_list = False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if start is None and fence:
            start, indent, marks, language = number, *fence.groups()
        elif start is not None and fence and fence.group(2) == marks and not fence.group(3):
            block = [text_line.removeprefix(indent) for text_line in lines[start : number - 1]]
            found.append(Snippet(document, start + 1, language, "\n".join(block) + "\n"))
            start = None
        elif start is None and line.strip():
            in_list = bool(re.match(r"\s*([-*+]|\d+\.) ", line)) or (in_list and line[0] == " ")
            if line.startswith("    ") and not before.strip() and not in_list:
                raise ValueError("%s:%d: use a fence that names the language" % (document, number))
        before = line
    if start is not None:
        raise ValueError("%s:%d: this block has no end" % (document, start))
    return found


def links_of(text):
    """Targets of links within the repository, without #anchors."""
    without_code = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", without_code)
    return [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = snippets_of(sys.argv[1], file.read())
    print(next(s.code for s in found if s.language == "cpp" and "int main(" in s.code))


if __name__ == "__main__":
    main()
