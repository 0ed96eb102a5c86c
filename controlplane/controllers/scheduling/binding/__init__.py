"""From a node that was found to the binding: what is recorded, reserved and asked for on the way."""
