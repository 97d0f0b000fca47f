/** How does a file become the data URL that the API takes? The server checks it again. */

export const MAX_IMAGE_BYTES = 10 * 1024 * 1024;

export interface ReadImage {
  readonly image: string | null;
  /** What is wrong, as a sentence, or null. */
  readonly problem: string | null;
}

export async function readImage(file: File): Promise<ReadImage> {
  if (!file.type.startsWith("image/")) {
    return { image: null, problem: "That isn't a picture. Choose a PNG, JPEG or WebP file." };
  }
  if (file.size > MAX_IMAGE_BYTES) {
    return { image: null, problem: "That picture is over 10 MiB. Choose a smaller one." };
  }
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ image: String(reader.result), problem: null });
    reader.onerror = () => resolve({ image: null, problem: "That file couldn't be read." });
    reader.readAsDataURL(file);
  });
}
