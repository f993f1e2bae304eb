"""The catalogue keeps pace with the package (`make mutants` runs the sabotages themselves)."""

from pathlib import Path

import pytest

from tests.mutations.catalogue import MUTATIONS, Mutation

PACKAGE = Path(__file__).parents[2] / "src" / "pgsom"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_the_line_to_be_sabotaged_stands_once(mutation: Mutation) -> None:
    assert (PACKAGE / mutation.file).read_text(encoding="utf-8").count(mutation.before) == 1
    assert mutation.before != mutation.after
    assert (PACKAGE.parents[1] / mutation.tests.split()[0]).is_file()
