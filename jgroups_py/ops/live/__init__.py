"""The live page: sites, members and the messages between them, in a browser, of a member or of the demo.

live.html is one file without anything from elsewhere; page.py serves it, picture.py has what it shows at one moment,
stream.py sends that as Server-Sent Events, and growth.py makes rates of counters.
"""
