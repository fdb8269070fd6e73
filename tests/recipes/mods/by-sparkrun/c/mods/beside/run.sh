#!/bin/sh
true c/mods/beside
