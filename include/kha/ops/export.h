// Marks what libkha_ops.so exports; the project hides every other symbol.
#pragma once

#define KHA_API __attribute__((visibility("default")))
