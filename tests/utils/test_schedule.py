from utils.schedule import linear_decay


def test_the_rate_is_pix2pixhds_in_every_epoch() -> None:
    # pix2pixHD lowers the rate at the end of epoch e (from 1) if e > niter
    niter, niter_decay, rate, expected = 3, 4, 1.0, []
    for epoch in range(1, niter + niter_decay + 1):
        expected.append(rate)
        if epoch > niter:
            rate -= 1 / niter_decay
    rates = [linear_decay(epoch, constant_epochs=niter, decay_epochs=niter_decay) for epoch in range(7)]
    assert rates == expected == [1, 1, 1, 1, 0.75, 0.5, 0.25]


def test_without_decay_the_rate_stays() -> None:
    assert linear_decay(5, constant_epochs=6, decay_epochs=0) == 1
