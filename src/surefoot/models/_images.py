"""What every model of images asks of its input."""


def check_images(input_shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `input_shape` is (channels, height, width), each at least 1."""
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise ValueError(
            f"`input_shape` must be (channels, height, width), each at least 1, got {list(input_shape)}: this network "
            "looks at images (of digits with `data.images = true`)."
        )
