"""training/corpus.py splits texts into documents."""

import pytest

from training.corpus import read_documents


@pytest.mark.parametrize("opening", [r"(Chap)?(ter|Part) 1", "^Chapter|^Part", "(?i)(ch|p).+ 1$"])
def test_a_document_begins_at_each_line_that_matches(tmp_path, opening):
    book = "\n".join(f"{name} 1\nA Part 1.\n" for name in ("Chapter", "Part", "Chapter"))
    (tmp_path / "book.txt").write_text(book, encoding="utf-8")
    assert len(read_documents([tmp_path / "book.txt"], opening)) == 3
