#!/bin/sh
true a/mods/fix
