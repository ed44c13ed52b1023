#include "model/cfg_keys.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "io/text.h"

namespace mpe {
namespace {

using Keys = std::span<const std::string_view>;

constexpr std::size_t kMostWarnings = 20;

constexpr std::string_view kSectionNames[] = {
    "convolutional",  "connected", "maxpool", "avgpool", "upsample", "route",   "shortcut",
    "scale_channels", "reorg",     "crop",    "dropout", "cost",     "softmax", "region",
    "yolo",           "conv",      "conn",    "max",     "avg",      "soft"};
constexpr LayerKind kSectionKinds[] = {
    LayerKind::kConvolutional, LayerKind::kConnected,     LayerKind::kMaxpool,
    LayerKind::kAvgpool,       LayerKind::kUpsample,      LayerKind::kRoute,
    LayerKind::kShortcut,      LayerKind::kScaleChannels, LayerKind::kReorg,
    LayerKind::kCrop,          LayerKind::kDropout,       LayerKind::kCost,
    LayerKind::kSoftmax,       LayerKind::kRegion,        LayerKind::kYolo,
    LayerKind::kConvolutional, LayerKind::kConnected,     LayerKind::kMaxpool,
    LayerKind::kAvgpool,       LayerKind::kSoftmax};
static_assert(std::size(kSectionNames) == std::size(kSectionKinds));

constexpr std::string_view kNet[] = {
    "width", "height", "channels", "batch", "subdivisions", "inputs", "time_steps",
    // optimiser and schedule
    "learning_rate", "learning_rate_min", "momentum", "decay", "policy", "steps", "scales",
    "seq_scales", "step", "scale", "gamma", "power", "burn_in", "max_batches", "sgdr_cycle",
    "sgdr_mult", "adam", "B1", "B2", "eps", "ema_alpha", "loss_scale", "try_fix_nan",
    "dynamic_minibatch", "sequential_subdivisions", "track", "augment_speed", "weights_reject_freq",
    "equidistant_point", "badlabels_rejection_percentage", "num_sigmas_reject_badlabels",
    "optimized_memory", "workspace_size_limit_MB", "use_cuda_graph", "max_chart_loss",
    "show_receptive_field",
    // augmentation
    "max_crop", "min_crop", "flip", "blur", "gaussian_noise", "mixup", "cutmix", "mosaic",
    "mosaic_bound", "letter_box", "contrastive", "contrastive_jit_flip", "contrastive_color",
    "unsupervised", "label_smooth_eps", "resize_step", "attention", "adversarial_lr", "angle",
    "aspect", "saturation", "exposure", "hue", "center", "ratio", "clip", "random", "notruth",
    "max_ratio", "min_ratio"};

// Darknet looks these up in every section.
constexpr std::string_view kAnyLayer[] = {
    "clip",          "onlyforward",   "dont_update", "burnin_update",
    "stopbackward",  "train_only_bn", "dontload",    "dontloadscales",
    "learning_rate", "stream",        "wait_stream", "smooth",
    "dontsave",      "numload",       "truth",       "show_receptive_field"};

constexpr std::string_view kConvolutional[] = {"filters",
                                               "size",
                                               "stride",
                                               "stride_x",
                                               "stride_y",
                                               "pad",
                                               "padding",
                                               "dilation",
                                               "groups",
                                               "activation",
                                               "batch_normalize",
                                               "fp32",
                                               "fp16",
                                               "int8",
                                               "quantize",
                                               "cbn",
                                               "antialiasing",
                                               "assisted_excitation",
                                               "share_index",
                                               "binary",
                                               "xnor",
                                               "bin_output",
                                               "sway",
                                               "rotate",
                                               "stretch",
                                               "stretch_sway",
                                               "angle",
                                               "flipped",
                                               "dot",
                                               "grad_centr",
                                               "reverse",
                                               "coordconv"};
constexpr std::string_view kConnected[] = {"output", "activation", "batch_normalize", "fp32",
                                           "fp16",   "int8",       "quantize"};
constexpr std::string_view kMaxpool[] = {"size",         "stride",       "stride_x",
                                         "stride_y",     "padding",      "maxpool_depth",
                                         "out_channels", "antialiasing", "maxpool_zero_nonmax"};
constexpr std::string_view kUpsample[] = {"stride", "scale"};
constexpr std::string_view kRoute[] = {"layers", "groups", "group_id"};
constexpr std::string_view kShortcut[] = {
    "from", "activation", "weights_type", "weights_normalization", "alpha", "beta"};
constexpr std::string_view kScaleChannels[] = {"from", "activation", "scale_wh"};
constexpr std::string_view kReorg[] = {"stride", "reverse", "flatten", "extra"};
constexpr std::string_view kCrop[] = {"crop_height", "crop_width", "flip",  "angle",
                                      "saturation",  "exposure",   "shift", "noadjust"};
constexpr std::string_view kDropout[] = {"probability", "dropblock", "dropblock_size_rel",
                                         "dropblock_size_abs"};
constexpr std::string_view kCost[] = {"type", "scale", "ratio", "noobj", "thresh"};
constexpr std::string_view kSoftmax[] = {"groups", "temperature", "tree", "spatial", "noloss"};
constexpr std::string_view kRegion[] = {
    "classes",     "num",         "coords",       "anchors",        "softmax",
    "background",  "max",         "log",          "sqrt",           "jitter",
    "resize",      "rescore",     "thresh",       "classfix",       "absolute",
    "random",      "coord_scale", "object_scale", "noobject_scale", "mask_scale",
    "class_scale", "bias_match",  "focal_loss",   "tree",           "map"};
constexpr std::string_view kYolo[] = {
    "classes", "num", "mask", "anchors", "scale_x_y", "new_coords", "nms_kind", "beta_nms",
    // training
    "max", "jitter", "resize", "random", "ignore_thresh", "truth_thresh", "iou_thresh",
    "iou_thresh_kind", "iou_loss", "iou_normalizer", "obj_normalizer", "cls_normalizer",
    "delta_normalizer", "max_delta", "label_smooth_eps", "objectness_smooth", "focal_loss",
    "counters_per_class", "show_details", "map", "track_history_size", "sim_thresh",
    "dets_for_track", "dets_for_show", "track_ciou_norm", "embedding_layer"};

Keys keys_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolutional:
      return kConvolutional;
    case LayerKind::kConnected:
      return kConnected;
    case LayerKind::kMaxpool:
      return kMaxpool;
    case LayerKind::kAvgpool:
      return {};
    case LayerKind::kUpsample:
      return kUpsample;
    case LayerKind::kRoute:
      return kRoute;
    case LayerKind::kShortcut:
      return kShortcut;
    case LayerKind::kScaleChannels:
      return kScaleChannels;
    case LayerKind::kReorg:
      return kReorg;
    case LayerKind::kCrop:
      return kCrop;
    case LayerKind::kDropout:
      return kDropout;
    case LayerKind::kCost:
      return kCost;
    case LayerKind::kSoftmax:
      return kSoftmax;
    case LayerKind::kRegion:
      return kRegion;
    case LayerKind::kYolo:
      return kYolo;
  }
  return {};
}

}  // namespace

std::string_view name_of(LayerKind kind) {
  const auto* found = std::find(std::begin(kSectionKinds), std::end(kSectionKinds), kind);
  return kSectionNames[found - std::begin(kSectionKinds)];
}

LayerKind layer_kind_of(const CfgSection& section) {
  const auto* found = std::find(std::begin(kSectionNames), std::end(kSectionNames), section.name());
  if (found != std::end(kSectionNames)) return kSectionKinds[found - std::begin(kSectionNames)];
  const std::string_view near = nearest(section.name(), kSectionNames);
  std::string known;
  for (const std::string_view name : kSectionNames) known += " " + std::string(name);
  section.fail("is not a section this engine knows; " +
               (near.empty() ? "known are:" + known : "did you mean [" + std::string(near) + "]?"));
}

void KeyCheck::warn(int line, const std::string& message) {
  if (warnings_.size() < kMostWarnings) {
    warnings_.push_back(std::string(file_) + ":" + std::to_string(line) + ": " + message);
  } else {
    ++suppressed_;
  }
}

void KeyCheck::check(const CfgSection& section, const std::vector<std::string_view>& known) {
  for (const CfgOption& option : section.options()) {
    if (std::find(known.begin(), known.end(), option.key) != known.end()) continue;
    const std::string_view near = nearest(option.key, known);
    section.fail(option.line,
                 "there is no key " + quoted(option.key) + "; " +
                     (near.empty() ? "remove it" : "did you mean " + quoted(near) + "?"));
  }
}

void KeyCheck::net(const CfgSection& section) {
  check(section, {std::begin(kNet), std::end(kNet)});
}

void KeyCheck::layer(const CfgSection& section, LayerKind kind) {
  const Keys own = keys_of(kind);
  std::vector<std::string_view> known(own.begin(), own.end());
  known.insert(known.end(), std::begin(kAnyLayer), std::end(kAnyLayer));
  check(section, known);
  for (const CfgOption& option : section.options()) {
    if (suppressed_ > 0) break;
    const CfgOption* first = section.find(option.key);
    if (first->value != option.value) {
      warn(option.line, quoted(option.key) + " is ignored: line " + std::to_string(first->line) +
                            " has set it already");
    }
  }
}

std::vector<std::string> KeyCheck::take_warnings() {
  if (suppressed_ > 0) {
    warnings_.push_back(std::string(file_) + ": " + std::to_string(suppressed_) +
                        " more keys are set twice");
  }
  return std::move(warnings_);
}

}  // namespace mpe
