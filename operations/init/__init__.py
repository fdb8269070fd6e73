"""`tandem init`: finds Sparks, mends what keeps a deploy out, asks three questions, and writes an owner's folder.

It runs on the owner's machine alone, Linux or macOS: Python's standard library and the programs of OpenSSH.
"""
