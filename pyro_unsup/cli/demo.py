def demo() -> None:
    pass
