// What a core can multiply and add at most, measured on it.
#pragma once

#include <string_view>

#include "model/precision.h"

namespace mpe {

// Multiply-adds a second of one core, of independent instructions on registers alone: the widest
// that the instruction set has for the precision. int8 without dot products counts the products of
// bytes and leaves out that they have to be added up. 0 where there is no such instruction.
double peak_multiply_adds(std::string_view isa, Precision precision);

}  // namespace mpe
