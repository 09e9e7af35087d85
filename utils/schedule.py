"""Learning rate as a pure function of the epoch."""


def linear_decay(epoch: int, *, constant_epochs: int, decay_epochs: int) -> float:
    """Factor of the learning rate in `epoch` (from 0): 1, then falling linearly to 1/decay_epochs in the last epoch.

    pix2pixHD lowers the rate at the end of an epoch, so the first of the decay epochs still runs at the full rate.
    """
    if epoch <= constant_epochs:
        return 1.0
    return 1.0 - (epoch - constant_epochs) / decay_epochs
