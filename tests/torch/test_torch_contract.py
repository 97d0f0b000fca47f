"""Does the torch world do what every bidirectional service must?

The tests of the contract, with the host of this folder.
"""

from tests.contract.test_service_contract import (  # noqa: F401 — they are collected here
    test_a_session_yields_valid_chunks_with_frames,
    test_capacity_is_at_least_one_and_never_above_the_operators,
    test_closing_frees_the_session_for_the_next,
    test_every_known_control_is_taken,
    test_ids_that_arent_there_do_no_harm,
    test_sessions_are_told_apart,
)
