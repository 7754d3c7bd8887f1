#include "cli/cmd_data.h"

#include <memory>

#include "cli/commands.h"

namespace kha::cli {

Command data_command() {
  return {"data", "prepare, check and show the text of a run", [](CLI::App& app) {
            using Part = std::pair<CLI::App*, std::function<int()>>;
            auto parts = std::make_shared<std::vector<Part>>();
            app.require_subcommand(1);
            for (const auto& part :
                 {data_prepare_command(), data_check_command(), data_show_command()}) {
              CLI::App* sub = app.add_subcommand(part.name, part.summary);
              parts->emplace_back(sub, part.add(*sub));
            }
            return [parts] {
              for (const auto& [sub, run] : *parts) {
                if (sub->parsed()) return run();
              }
              return 0;
            };
          }};
}

}  // namespace kha::cli
