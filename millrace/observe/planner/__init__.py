"""How fast a job would be with other numbers of tasks and other links.

`cost` is what one step takes of each part, measured; `simulation` lets many workers take it from
many parameter servers; `picture` draws the result.
"""
