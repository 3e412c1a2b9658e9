// A page that shows how a model was quantized, without scripts or external files.
#pragma once

#include <string>

#include "model_text.h"

namespace tern::cli {

std::string html_report(const Written& written);
Status save_html_report(const std::string& path, const Written& written);

}  // namespace tern::cli
