#!/bin/sh
true b-mods/fix
