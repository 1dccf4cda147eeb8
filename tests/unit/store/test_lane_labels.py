"""Labels by lane are bounded."""

from jobs_store.lane_labels import OTHER, LaneLabels


def test_a_lane_is_its_provider_and_its_model() -> None:
    assert {"provider": "openrouter", "model": "meta/llama-3"} == LaneLabels().of("openrouter/meta/llama-3")


def test_lanes_that_are_too_many_share_one_label() -> None:
    labels = LaneLabels(most=2)
    seen = [labels.of(f"p/m{number}")["model"] for number in (1, 2, 3, 4, 1)]
    assert ["m1", "m2", OTHER, OTHER, "m1"] == seen
    assert f"{OTHER}/{OTHER}" == labels.named("p/m9")
