/** The preview of the output of a tool call. */

import { formatSize } from './file-size.ts';
import { terminalText } from './terminal-text.ts';
import { pluralize } from './tool-summary.ts';

const PREVIEW_LINES = 6;
/** In characters, because one line may be very long. */
const PREVIEW_LENGTH = 600;

/**
 * Returns the start of an output as `text`. `more` describes the omitted part, such as "40 more lines"; it is empty for a whole output.
 * @param imageCount the number of images in the output
 * @param cutBytes the full size of the messages of which `output` contains only excerpts
 */
export function previewOutput(output: string, imageCount: number, cutBytes = 0): { text: string; more: string } {
  const clean = terminalText(output);
  const lines = clean.split('\n');
  const first = lines.slice(0, PREVIEW_LINES).join('\n');
  const text = first.slice(0, PREVIEW_LENGTH);
  const moreLines = lines.length - PREVIEW_LINES;
  const more = [
    cutBytes > 0
      ? `${formatSize(cutBytes)} in total`
      : text.length < first.length
        ? pluralize(clean.length - text.length, 'more character')
        : moreLines > 0 && pluralize(moreLines, 'more line'),
    imageCount > 0 && pluralize(imageCount, 'image'),
  ];
  return { text, more: more.filter(Boolean).join(', ') };
}
