"""What the theme leaves unnamed for screen readers."""


def on_post_page(output: str, **_: object) -> str:
    """Name the dialog of the search."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
