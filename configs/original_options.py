"""Options of the command lines of pix2pixHD, pix2pix, CycleGAN and CUT, with what each is here."""

PAGE = "docs/coming_from_pix2pixHD.md or docs/coming_from_CycleGAN.md"

_SETTINGS = {
    "name": "run.name=…",
    "checkpoints_dir": "run.root=…",
    "batchSize": "train.batch_size=…",
    "batch_size": "train.batch_size=…",
    "label_nc": "data.n_classes=…",
    "input_nc": "data.source_channels=…",
    "output_nc": "data.target_channels=…",
    "dataroot": "data.root=…",
    "resize_or_crop": "data.preprocess=…",
    "preprocess": "data.preprocess=…",
    "no_flip": "data.flip=false",
    "nThreads": "data.workers=…",
    "num_threads": "data.workers=…",
    "direction": "data.direction=…",
    "which_direction": "data.direction=…",
    "ngf": "generator.base_channels=…",
    "ndf": "discriminator.base_channels=…",
    "n_downsample_global": "generator.n_downsamplings=…",
    "n_blocks_global": "generator.n_blocks=…",
    "n_local_enhancers": "generator.n_enhancers=…",
    "n_blocks_local": "generator.n_enhancer_blocks=…",
    "niter_fix_global": "train.freeze_global_epochs=…",
    "use_dropout": "generator.dropout=true",
    "no_dropout": "generator.dropout=false",
    "normG": "generator.norm=…",
    "normD": "discriminator.norm=…",
    "no_antialias": "generator.downsample=strided discriminator.downsample=strided",
    "no_antialias_up": "generator.upsample=transposed",
    "no_instance": "data.instance_edges=false",
    "instance_feat": "features.n_channels=3",
    "feat_num": "features.n_channels=…",
    "n_downsample_E": "features.n_downsamplings=…",
    "nef": "features.base_channels=…",
    "print_freq": "log.every_steps=…",
    "display_freq": "log.images_every_steps=…",
    "update_html_freq": "log.images_every_steps=…",
    "save_latest_freq": "checkpoint.every_steps=…",
    "niter": "train.epochs=…",
    "n_epochs": "train.epochs=…",
    "niter_decay": "train.decay_epochs=…",
    "n_epochs_decay": "train.decay_epochs=…",
    "beta1": "optimizer.beta1=…",
    "beta2": "optimizer.beta2=…",
    "lr": "optimizer.learning_rate=…",
    "lr_decay_iters": "optimizer.step_epochs=…",
    "num_D": "discriminator.n_scales=…",
    "n_layers_D": "discriminator.n_layers=…",
    "no_ganFeat_loss": "loss.feature_matching=0",
    "no_vgg_loss": "loss.vgg=0",
    "no_lsgan": "loss.gan_mode=vanilla",
    "lambda_A": "loss.l1=…, with method.name=cycle cycle.weight_a=…",
    "lambda_B": "cycle.weight_b=…",
    "lambda_identity": "cycle.identity=…",
    "lambda_GAN": "loss.adversarial=…",
    "lambda_NCE": "contrastive.weight=…",
    "nce_idt": "contrastive.identity=…",
    "nce_layers": "contrastive.taps=[…]",
    "nce_includes_all_negatives_from_minibatch": "contrastive.all_negatives=…",
    "nce_T": "contrastive.temperature=…",
    "netF_nc": "contrastive.channels=…",
    "num_patches": "contrastive.n_patches=…",
    "flip_equivariance": "contrastive.flip_equivariance=…",
    "lambda_L1": "loss.l1=…",
    "pool_size": "train.pool_size=…",
    "pretrained_name": "init.generator=…",
}
_OTHERS = """
aspect_ratio cluster_path continue_train crop_size CUT_mode data_type dataset_mode debug display_env display_id
display_ncols display_port display_server display_single_pane_ncols display_winsize easy_label engine epoch epoch_count
eval evaluation_freq export_onnx fineSize fp16 gan_mode gpu_ids how_many identity init_gain init_type label_feat
lambda_feat lambda_R1 load_features load_iter load_pretrain load_size loadSize local_rank lr_policy max_dataset_size
model model_suffix n_clusters netD netF netG no_html norm ntest num_test onnx phase random_scale_max results_dir
save_by_iter save_epoch_freq serial_batches stylegan2_G_num_downsampling suffix tf_log use_encoded_image use_wandb
verbose wandb_project_name which_epoch which_model_netD which_model_netG
"""

OF_TRAINING = dict.fromkeys(_OTHERS.split(), "") | _SETTINGS
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
