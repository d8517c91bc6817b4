"""The smaller matrices still have every pair, and every value."""

from itertools import product

from tests import sizes

FACTORS = (list("abcdef"), [1, 2, 3, 4], ["x", "y", "z"], [True, False])


def test_every_pair_is_there_once_at_least(monkeypatch):
    monkeypatch.setattr(sizes, "FULL", False)
    chosen = sizes.pairwise(*FACTORS)
    for one in range(len(FACTORS)):
        for other in range(one):
            met = {(case[one], case[other]) for case in chosen}
            assert met == set(product(FACTORS[one], FACTORS[other]))
    assert len(chosen) < 32 < len(list(product(*FACTORS)))


def test_every_value_is_there_once_at_least(monkeypatch):
    monkeypatch.setattr(sizes, "FULL", False)
    chosen = sizes.each_value(*FACTORS)
    assert len(chosen) == 6
    assert [set(values) for values in zip(*chosen, strict=True)] == [set(f) for f in FACTORS]


def test_a_full_run_has_all(monkeypatch):
    monkeypatch.setattr(sizes, "FULL", True)
    assert sorted(sizes.pairwise("ab", "cd")) == sorted(sizes.each_value("ab", "cd"))
    assert len(sizes.pairwise(*FACTORS)) == 144


def test_each_case_has_postgres_and_one_embedded_database(monkeypatch):
    names = [f"tests/lake/test_x.py::test_y[{{}}-{number}]" for number in range(40)]
    kinds = ("sqlite", "duckdb", "postgres")

    def chosen(name: str) -> list[str]:
        return [kind for kind in kinds if sizes.is_in_turn(name.format(kind), kind)]

    monkeypatch.setattr(sizes, "FULL", False)
    found = [chosen(name) for name in names]
    assert {tuple(item) for item in found} == {("sqlite", "postgres"), ("duckdb", "postgres")}
    assert chosen("tests/store/test_x.py::test_y[{}]") == list(kinds)
    monkeypatch.setattr(sizes, "FULL", True)
    assert chosen(names[0]) == list(kinds)
