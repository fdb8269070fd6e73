#!/bin/sh
nohup watcher &
