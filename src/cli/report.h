// The page at the end of a command.
#pragma once

#include <filesystem>

namespace kha::cli {

// Has kha-report draw RUN/report.html where it is installed, and says where it is not. What goes
// wrong there is printed by it; the run is whole without a page.
void make_report(const std::filesystem::path& run);

}  // namespace kha::cli
