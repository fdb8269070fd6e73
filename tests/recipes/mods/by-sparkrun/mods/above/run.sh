#!/bin/sh
true mods/above
