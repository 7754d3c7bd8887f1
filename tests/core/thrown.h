// The text of the kha::Error that a call throws; an empty text when it throws none.
#pragma once

#include <string>

#include "kha/core/error.h"

namespace kha {

template <class Call>
std::string thrown(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace kha
