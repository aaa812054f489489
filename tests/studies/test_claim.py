import json

import pytest

from surefoot.studies.claim import Claim, Rule, Verdict, claims_table, conjunction, disjunction, rules_table
from surefoot.studies.outcome import Outcome

CLAIM = Claim("r/train/gd", "r > 0", Verdict.REPRODUCED, 0.5, 0.2, 0.8, (3, 4), "runs", "cnn", "0.5 [0.2, 0.8]")


def test_a_claim_survives_json() -> None:
    assert Claim.from_dict(json.loads(json.dumps(CLAIM.to_dict()))) == CLAIM
    assert CLAIM.to_dict()["verdict"] == "reproduced"


def test_keys_of_later_versions_are_left_out() -> None:
    assert Claim.from_dict({**CLAIM.to_dict(), "colour": "red"}) == CLAIM


@pytest.mark.parametrize(
    ("name", "inside"),
    [("r", True), ("r/train", True), ("r/train/gd", True), ("r/tra", False), ("r/train/gd/0", False), ("", False)],
)
def test_a_claim_is_within_its_own_parts_alone(name: str, inside: bool) -> None:
    assert CLAIM.within(name) is inside


def test_the_family_is_the_first_part() -> None:
    assert CLAIM.family == "r"


def test_tables_are_made_from_records() -> None:
    table = claims_table([CLAIM], title="T", measured="r", notes=("n",))
    assert table.columns == ("claim", "r", "verdict")
    assert table.rows == (("r > 0 (cnn)", "0.5 [0.2, 0.8]", "reproduced"),)
    assert rules_table([Rule("r", "a", "b", "c")]).rows == (("r", "a", "b", "c"),)


def test_opposites_and_both() -> None:
    assert [verdict.opposite for verdict in Verdict] == [
        Verdict.NOT_SEEN,
        Verdict.INCONCLUSIVE,
        Verdict.REPRODUCED,
        Verdict.NOT_TESTED,
    ]
    assert conjunction([Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE]) is Verdict.NOT_SEEN
    assert disjunction([Verdict.NOT_SEEN, Verdict.REPRODUCED]) is Verdict.REPRODUCED
    assert disjunction([Verdict.NOT_SEEN, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE


def test_two_claims_cannot_have_one_id() -> None:
    with pytest.raises(ValueError, match="`claims` must have ids of their own, got r/train/gd more than once"):
        Outcome(claims=(CLAIM, CLAIM))
