import time

from utils.stopwatch import Stopwatch


def test_speed_and_waiting_are_those_of_the_lap() -> None:
    stopwatch = Stopwatch()
    stopwatch.start(10)
    with stopwatch.waiting():
        time.sleep(0.03)
    time.sleep(0.01)
    first = stopwatch.lap(14)
    assert 0 < first.steps_per_s <= 100
    assert 0.3 < first.waiting_share < 1
    time.sleep(0.001)
    assert stopwatch.lap(14).waiting_share == 0
