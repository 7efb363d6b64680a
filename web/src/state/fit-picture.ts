/** Scales pictures down before they are uploaded. Models refuse larger ones, also in every later message of the conversation. */

const MAX_EDGE_PIXELS = 2000;

/** 5 MB as base64. */
const MAX_BYTES = 3_700_000;

/** Returns the file, or a smaller picture if the file is a picture above the limits and the browser can scale it. */
export async function fitPicture(file: File): Promise<File> {
  if (typeof OffscreenCanvas === 'undefined') return file;
  const image = await createImageBitmap(file).catch(() => null);
  if (image === null) return file;
  try {
    return await shrink(file, image);
  } finally {
    image.close();
  }
}

async function shrink(file: File, image: ImageBitmap): Promise<File> {
  const scale = Math.min(1, MAX_EDGE_PIXELS / Math.max(image.width, image.height));
  if (scale === 1 && file.size <= MAX_BYTES) return file;
  const canvas = new OffscreenCanvas(Math.max(1, Math.round(image.width * scale)), Math.max(1, Math.round(image.height * scale)));
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  for (const options of [{ type: file.type }, { type: 'image/jpeg', quality: 0.9 }, { type: 'image/jpeg', quality: 0.6 }]) {
    const picture = await canvas.convertToBlob(options);
    if (picture.size > MAX_BYTES) continue;
    // The name shows the type.
    const name = picture.type === file.type ? file.name : `${file.name.replace(/\.[^.]*$/, '')}.${picture.type.slice('image/'.length)}`;
    return new File([picture], name, { type: picture.type });
  }
  return file;
}
