/* SPDX-License-Identifier: MIT */
/* all.hpp: what C++ programs use. #include <usched/all.hpp> */

#ifndef USCHED_ALL_HPP
#define USCHED_ALL_HPP

#include "all.h"
#include "usched.hpp"
#include "ugen.hpp"

#endif /* USCHED_ALL_HPP */
