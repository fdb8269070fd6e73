"""The gate of answers: questions whose answers a program can check, and the checks. Pure: who asks is elsewhere.

A check of form holds for any model, however small: parser, template, schema, protocol. One of sense may fail, and is
compared with what served before.
"""
