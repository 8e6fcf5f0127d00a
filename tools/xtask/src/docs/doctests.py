"""Formats the sessions in docstrings as code, since MkDocs would render `>>>` as quotations."""

import griffe


class Sessions(griffe.Extension):
    def on_instance(self, *, obj, **_):
        if obj.docstring:
            parts = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(
                f"```pycon\n{part}\n```" if part.startswith(">>>") else part for part in parts
            )
