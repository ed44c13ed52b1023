// Until the kernels' own selection is there, every convolution takes the plain loops.
#if !__has_include("kernels/select.cpp")
#include <string>

#include "error.h"
#include "kernels/convolution.h"

namespace mpe {

std::unique_ptr<Convolution> make_convolution(const ConvolutionRequest& request,
                                              const ConvolutionChoice& choice) {
  for (const std::string_view name : {choice.isa, choice.algorithm}) {
    if (!name.empty() && name != "reference") {
      throw Error("'" + std::string(name) + "' is not there; 'reference' is");
    }
  }
  return make_reference_convolution(request);
}

}  // namespace mpe
#endif
