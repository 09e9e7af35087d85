// Frames of a webcam.

export class Camera {
  constructor() {
    this.video = document.createElement("video");
    this.video.muted = this.video.playsInline = true;
    this.stream = null;
  }

  get isOn() {
    return this.stream !== null;
  }

  /** Ask for the camera; throws where there is none, or the user refuses. */
  async start() {
    if (!navigator.mediaDevices) throw new Error("The browser gives no camera to this page.");
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ video: true });
    } catch (error) {
      throw new Error(`The camera cannot be used: ${error.message || error.name}`);
    }
    this.video.srcObject = this.stream;
    await this.video.play();
  }

  stop() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = this.video.srcObject = null;
  }
}
