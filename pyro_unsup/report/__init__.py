"""Reports in the browser: one page, in one file, made from what the task of a model says of it.

A task gives values (:mod:`.values`): pictures, counts of errors, drawn examples. This room makes a page of them, one
file a part. It knows of no model. Text becomes markup in :mod:`.markup` alone.
"""
