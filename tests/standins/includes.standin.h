/* What prelude.standin.h includes, apart, so that standin.py can precompile it: every kernel is a program of its own. */
#pragma once
#include <time.h>
#include <ucontext.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>
