/** Shows the path of a file in one line. If the space is too small, the folder is shortened before the name. */

import { escapeText } from '../content/escape-invisible.ts';
import { EscapedText } from './escaped-text.tsx';

/** `fullPath`: the whole path, if `path` is a short form. */
export function PathText({ path, fullPath = path }: { path: string; fullPath?: string }) {
  const start = path.replace(/[\\/]+$/, '').search(/[^\\/]*$/);
  return (
    <span class="path" title={escapeText(fullPath)}>
      {start > 0 && (
        <span class="path-folder ellipsis">
          <EscapedText text={path.slice(0, start)} />
        </span>
      )}
      <span class="path-name">
        <EscapedText text={path.slice(start)} />
      </span>
    </span>
  );
}
