"""Options of the command lines of pix2pixHD, pix2pix, CycleGAN and CUT, with what each is here."""

PAGE = "docs/coming_from_pix2pixHD.md or docs/coming_from_CycleGAN.md"

_SETTINGS = {  # with the options that they are; a value that is not named here is that of the option
    "run.name": "name",
    "run.root": "checkpoints_dir",
    "train.batch_size": "batchSize batch_size",
    "data.n_classes": "label_nc",
    "data.source_channels": "input_nc",
    "data.target_channels": "output_nc",
    "data.root": "dataroot",
    "data.preprocess": "resize_or_crop preprocess",
    "data.flip=false": "no_flip",
    "data.workers": "nThreads num_threads",
    "data.direction": "direction which_direction",
    "generator.base_channels": "ngf",
    "discriminator.base_channels": "ndf",
    "generator.n_downsamplings": "n_downsample_global",
    "generator.n_blocks": "n_blocks_global",
    "generator.n_enhancers": "n_local_enhancers",
    "generator.n_enhancer_blocks": "n_blocks_local",
    "train.freeze_global_epochs": "niter_fix_global",
    "generator.dropout=true": "use_dropout",
    "generator.dropout=false": "no_dropout",
    "generator.norm": "normG",
    "discriminator.norm": "normD",
    "generator.downsample=strided discriminator.downsample=strided": "no_antialias",
    "generator.upsample=transposed": "no_antialias_up",
    "data.instance_edges=false": "no_instance",
    "features.n_channels=3": "instance_feat",
    "features.n_channels": "feat_num",
    "features.n_downsamplings": "n_downsample_E",
    "features.base_channels": "nef",
    "log.every_steps": "print_freq",
    "log.images_every_steps": "display_freq update_html_freq",
    "checkpoint.every_steps": "save_latest_freq",
    "train.epochs": "niter n_epochs",
    "train.decay_epochs": "niter_decay n_epochs_decay",
    "optimizer.beta1": "beta1",
    "optimizer.beta2": "beta2",
    "optimizer.learning_rate": "lr",
    "optimizer.step_epochs": "lr_decay_iters",
    "discriminator.n_scales": "num_D",
    "discriminator.n_layers": "n_layers_D",
    "loss.feature_matching=0": "no_ganFeat_loss",
    "loss.vgg=0": "no_vgg_loss",
    "loss.gan_mode=vanilla": "no_lsgan",
    "loss.gan_mode": "gan_mode",
    "loss.l1=…, with method.name=cycle cycle.weight_a=…": "lambda_A",
    "cycle.weight_b": "lambda_B",
    "cycle.identity": "lambda_identity",
    "loss.adversarial": "lambda_GAN",
    "contrastive.weight": "lambda_NCE",
    "contrastive.identity": "nce_idt",
    "contrastive.taps=[…]": "nce_layers",
    "contrastive.all_negatives": "nce_includes_all_negatives_from_minibatch",
    "contrastive.temperature": "nce_T",
    "contrastive.channels": "netF_nc",
    "contrastive.n_patches": "num_patches",
    "contrastive.flip_equivariance": "flip_equivariance",
    "loss.l1": "lambda_L1",
    "train.pool_size": "pool_size",
    "init.generator": "pretrained_name",
}
_OTHERS = """
aspect_ratio cluster_path continue_train crop_size CUT_mode data_type dataset_mode debug display_env display_id
display_ncols display_port display_server display_single_pane_ncols display_winsize easy_label engine epoch epoch_count
eval evaluation_freq export_onnx fineSize fp16 gpu_ids how_many identity init_gain init_type label_feat
lambda_feat lambda_R1 load_features load_iter load_pretrain load_size loadSize local_rank lr_policy max_dataset_size
model model_suffix n_clusters netD netF netG no_html norm ntest num_test onnx phase random_scale_max results_dir
save_by_iter save_epoch_freq serial_batches stylegan2_G_num_downsampling suffix tf_log use_encoded_image use_wandb
verbose wandb_project_name which_epoch which_model_netD which_model_netG
"""

OF_TRAINING = dict.fromkeys(_OTHERS.split(), "") | {
    option: setting if "=" in setting else f"{setting}=…"
    for setting, options in _SETTINGS.items()
    for option in options.split()
}
# networks and sizes are in the checkpoint
OF_TRANSLATION = dict.fromkeys(OF_TRAINING, "") | {
    "name": "--checkpoint runs/NAME",
    "dataroot": "data.root=…, or --input",
    "results_dir": "--output",
    "phase": "--split",
    "which_epoch": "--checkpoint FILE",
    "epoch": "--checkpoint FILE",
    "cluster_path": "--clusters",
}
