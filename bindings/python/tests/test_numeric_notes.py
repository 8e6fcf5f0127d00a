"""Numerical notes choose engines and set their knobs, which shows in the numbers."""

import hipdnn
import numpy as np
import pytest
from hipdnn import numerical_note as note

TILES = [note.WINOGRAD, note.WINOGRAD_TILE_4x4, note.WINOGRAD_TILE_6x6]


def convolution():
    graph = hipdnn.Graph()
    x, w = graph.tensor([1, 16, 8, 8]), graph.tensor([16, 16, 3, 3])
    graph.conv_fprop(x, w, padding=[1, 1]).set_output(True)
    return graph


@pytest.fixture
def arrays(random):
    return [random.standard_normal(shape).astype(np.float32) for shape in ((1, 16, 8, 8), (16, 16, 3, 3))]


def computed(arrays, select=(), deselect=(), late=False):
    """The result with notes selected and deselected, before candidates are known or after."""
    graph = convolution()
    if late:
        graph.create_execution_plans()
    graph.select_numeric_notes(select)
    graph.deselect_numeric_notes(deselect)
    if late:
        graph.build_plans()
    return graph(*arrays)


@pytest.mark.parametrize("late", [False, True])
def test_knobs_are_set_and_show_in_the_numbers(arrays, late):
    direct = computed(arrays, deselect=TILES, late=late)
    two, four = (computed(arrays, select=[tile], late=late) for tile in TILES[1:])
    np.testing.assert_allclose(two, direct, rtol=1e-3, atol=1e-4)
    assert not np.array_equal(direct, two) and not np.array_equal(two, four)
    # Both at once: a note that a knob gives, and one that another takes away.
    np.testing.assert_array_equal(computed(arrays, [TILES[1]], [note.NONDETERMINISTIC], late), two)


def test_candidates_without_a_knob_are_left_out_with_the_reason():
    graph = convolution()
    graph.create_execution_plans()
    before = graph.get_execution_plan_count()
    graph.deselect_numeric_notes(["SPLIT_SUMS"])
    assert graph.get_execution_plan_count() == before, "no engine divides these sums"
    graph.deselect_numeric_notes(["BATCH_DEPENDENT"])
    assert graph.get_plan_name_at_index(0) == "CPU_ENGINE", "it has a knob"
    graph.build_plans()
    with pytest.raises(hipdnn.NoEngineError, match="does not have the note FFT, which is selected") as raised:
        graph.select_numeric_notes([note.FFT])
    assert set(raised.value.reasons) == {"CPU_ENGINE", "CPU_REFERENCE_ENGINE"}
    sums = hipdnn.Graph()
    sums.reduction(sums.tensor([64, 4096]), hipdnn.reduction_mode.ADD, axis=1).set_output(True)
    sums.create_execution_plans()
    sums.deselect_numeric_notes(["SPLIT_SUMS"])
    assert sums.get_plan_name_at_index(0) == "CPU_REFERENCE_ENGINE"
    sums.build_plans()
    assert sums.engine == "CPU_REFERENCE_ENGINE"


def test_plans_tell_their_notes(arrays):
    graph = convolution()
    graph.select_numeric_notes([note.WINOGRAD_TILE_4x4])
    graph.build()
    graph.deselect_numeric_notes(TILES)
    with pytest.raises(hipdnn.NoEngineError, match="WINOGRAD_TILE_4x4"):
        graph.build()


def test_unknown_notes_are_refused():
    graph = convolution()
    with pytest.raises(ValueError, match='notes: has "SPEED", expected some of TENSOR_CORE'):
        graph.select_numeric_notes(["SPEED"])
        graph.build()


def test_convolutions_by_fft_show_in_the_numbers():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    if not torch.cuda.is_available() or torch.version.hip:
        pytest.skip("PyTorch finds no GPU of NVIDIA's, for which cuDNN convolves by FFT")
    torch.manual_seed(0)
    x, w = torch.randn(2, 16, 64, 64, device="cuda"), torch.randn(16, 16, 7, 7, device="cuda") / 28

    def computed(select=(), deselect=()):
        graph = hipdnn.Graph()
        graph.conv_fprop(graph.tensor(x.shape), graph.tensor(w.shape), padding=[3, 3]).set_output(True)
        graph.select_numeric_notes(select)
        graph.deselect_numeric_notes(deselect)
        return torch.as_tensor(graph(x, w), device="cuda")

    by_fft, direct = computed(select=[note.FFT]), computed(deselect=[note.FFT])
    exact = torch.nn.functional.conv2d(x.double(), w.double(), padding=3)
    for found in (by_fft, direct):
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)
    assert not torch.equal(by_fft, direct)
