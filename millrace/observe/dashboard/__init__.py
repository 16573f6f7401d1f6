"""The live page of a job: what its tasks tell, kept for a while, and shown in a browser.

`watcher` asks the tasks, `history` keeps and compares what they say, `scalars` follows the event
files, `page` answers the browser. `page.html`, `page.css` and `page.js` are what it shows: no build
step, nothing from the internet.
"""
