"""The pages: links lead somewhere, the front page stays short, the map has every file, questions have their answers."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
QUESTION = re.compile(r"^\| (.+\?) \| `(\S+)` \| `(\w+)` \|$", re.MULTILINE)


def pages():
    return [p for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]]


def anchors(text):
    """What headings are called in links, as GitHub makes it."""
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def names_in_map(text):
    """(folder, name) of each file or family in the tables below '## Map'."""
    for section in re.split(r"^### ", text[text.index("\n## Map\n"):], flags=re.MULTILINE)[1:]:
        folder = section.splitlines()[0].strip()
        for cell in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE):
            for name in re.findall(r"`([^`]+)`", cell):
                yield folder, name


class Pages(unittest.TestCase):
    def test_links(self):
        broken = []
        for page in pages():
            text = page.read_text()
            for link in LINK.findall(FENCE.sub("", text)):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
                    broken.append(f"{page.relative_to(ROOT)}: {link}")
        self.assertEqual(broken, [])

    def test_every_page_is_linked(self):
        linked = {(p.parent / link.partition("#")[0]).resolve() for p in pages() for link in LINK.findall(p.read_text())}
        alone = [p.name for p in pages() if p not in linked and p.name not in ("README.md", "CHANGELOG.md")]
        self.assertEqual(alone, [])

    def test_front_page_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 120)

    def test_map(self):
        here = {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.[ch]")}
        mapped, empty = set(), []
        for folder, name in names_in_map((ROOT / "ARCHITECTURE.md").read_text()):
            meant = {str(p.relative_to(ROOT)) for end in (".c", ".h") for p in (ROOT / folder).glob(name + end)}
            mapped |= meant
            if not meant:
                empty.append(f"{folder}/{name}")
        self.assertEqual(empty, [], "in ARCHITECTURE.md's map, but not there")
        self.assertEqual(sorted(here - mapped), [], "not in ARCHITECTURE.md's map")

    def test_questions(self):
        found = QUESTION.findall((ROOT / "docs" / "where.md").read_text())
        self.assertGreaterEqual(len(found), 30)
        for question, path, name in found:
            file = ROOT / path
            self.assertTrue(file.exists(), f"{question} {path} is gone")
            defined = re.search(rf"^[a-z][^;{{}}]*\b{name}\s*[(\[]", file.read_text(), re.MULTILINE)
            self.assertTrue(defined, f"{question} {path} no longer defines {name}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
