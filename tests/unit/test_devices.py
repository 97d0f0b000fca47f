"""After a load the rubbish goes, and where the model lies is told."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from gpu_node.services.devices import settle


def cards(*, ready: bool = True, fault: Exception | None = None) -> SimpleNamespace:
    """As much of torch as is asked, with two cards."""
    emptied: list[str] = []

    def info(index: int) -> tuple[int, int]:
        if fault:
            raise fault
        return 60, 80

    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: ready,
        empty_cache=lambda: emptied.append("emptied"),
        device_count=lambda: 2,
        mem_get_info=info,
        get_device_name=lambda index: f"Card {index}",
        memory_allocated=lambda index: 10,
        memory_reserved=lambda index: 12,
    )
    return SimpleNamespace(cuda=cuda, emptied=emptied)


def test_without_torch_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it isn't imported for that."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert settle() == []
    assert "torch" not in sys.modules


def test_what_lies_on_which_card_is_logged_after_the_caches_are_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line per card."""
    torch = cards()
    monkeypatch.setitem(sys.modules, "torch", torch)
    with capture_logs() as lines:
        devices = settle()
    assert torch.emptied == ["emptied"]
    assert [(line["event"], line["device_name"]) for line in lines] == [
        ("device_map", "Card 0"),
        ("device_map", "Card 1"),
    ]
    assert devices[0] == {
        "device_index": 0,
        "device_name": "Card 0",
        "allocated_bytes": 10,
        "reserved_bytes": 12,
        "free_bytes": 60,
        "total_bytes": 80,
    }


def test_a_service_that_uses_no_card_is_left_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking a card anything would claim some of its memory."""
    monkeypatch.setitem(sys.modules, "torch", cards(ready=False))
    assert settle() == []


def test_a_driver_in_trouble_ends_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It will show at the first frame."""
    monkeypatch.setitem(sys.modules, "torch", cards(fault=RuntimeError("CUDA error")))
    with capture_logs() as lines:
        assert settle() == []
    assert lines[0]["event"] == "devices_unknown"
