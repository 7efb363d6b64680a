/** Shows one file: highlighted text, an image, or a download link for other content. */

import { Download } from 'lucide-preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { escapeText } from '../content/escape-invisible.ts';
import { formatSize } from '../content/file-size.ts';
import { detectFileType } from '../content/file-type.ts';
import { highlight } from '../content/highlight.ts';
import { fetchFile } from '../state/workspace.ts';
import { PathText } from '../ui/path-text.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { useFetch } from '../ui/use-fetch.ts';

export function FileViewer({ sessionId, path }: { sessionId: string; path: string }) {
  const { value, error, refetch } = useFetch(`${sessionId} ${path}`, () => fetchFile(sessionId, path));
  const name = path.slice(path.lastIndexOf('/') + 1);
  const url = useObjectUrl(value, name);
  const content = useMemo(() => value && detectFileType(name, value), [value, name]);
  return (
    <article class="file" aria-label={escapeText(path)}>
      <header class="spread">
        <h2 class="mono">
          <PathText path={path} />
        </h2>
        {value && url && (
          <span class="row">
            <span class="muted small">{formatSize(value.length)}</span>
            <a class="button quiet icon" href={url} download={name} aria-label={`Download ${escapeText(name)}`}>
              <Download size={18} />
            </a>
          </span>
        )}
      </header>
      {error && <ErrorNotice text={error} onRetry={refetch} />}
      {!value && !error && <Skeleton label="Loading the file" lines={8} />}
      {content?.kind === 'text' && <Code text={content.text} name={name} />}
      {content?.kind === 'image' && url && <img class="file-image" src={url} alt={escapeText(name)} />}
      {content?.kind === 'binary' && <p class="empty">Not a text file. Download it to open it.</p>}
    </article>
  );
}

/** Returns an object URL for the bytes. Revokes the URL when the bytes change or the view closes. */
function useObjectUrl(bytes: Uint8Array<ArrayBuffer> | undefined, name: string): string | undefined {
  const [objectUrl, setObjectUrl] = useState<{ bytes: Uint8Array; url: string }>();
  useEffect(() => {
    if (!bytes) return undefined;
    const content = detectFileType(name, bytes);
    const url = URL.createObjectURL(new Blob([bytes], { type: content.kind === 'image' ? content.type : 'application/octet-stream' }));
    setObjectUrl({ bytes, url });
    return () => URL.revokeObjectURL(url);
  }, [bytes, name]);
  // Until the effect has created the URL of new bytes, the state still contains the revoked URL of the previous bytes.
  return objectUrl?.bytes === bytes ? objectUrl?.url : undefined;
}

/** Rendering many megabytes of text at once would block the page for seconds. */
const CHARS_PER_STEP = 500_000;

/** Shows the first part of a text, and a button for more. */
function Code({ text, name }: { text: string; name: string }) {
  const [maxChars, setMaxChars] = useState(CHARS_PER_STEP);
  if (text.length <= maxChars) return <CodeLines text={text} name={name} />;
  // Ends with a whole line, unless the line is very long.
  const end = text.lastIndexOf('\n', maxChars) + 1;
  const shown = text.slice(0, end > maxChars / 2 ? end : maxChars);
  return (
    <>
      <CodeLines text={shown} name={name} />
      <p class="row muted small file-more">
        The first {formatSize(shown.length)} of {formatSize(text.length)} are shown.
        <button type="button" class="button" onClick={() => setMaxChars(maxChars + CHARS_PER_STEP)}>
          Show more
        </button>
      </p>
    </>
  );
}

/** Shows code with line numbers. Setting its HTML is safe because `highlight` escapes the code. */
function CodeLines({ text, name }: { text: string; name: string }) {
  const { value: highlighted } = useFetch(`${name}\n${text}`, () => highlight(text, name));
  const count = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  const numbers = useMemo(() => Array.from({ length: count }, (_, index) => index + 1).join('\n'), [count]);
  return (
    <div class="code" tabIndex={0} role="region" aria-label="Content">
      <pre class="line-numbers" aria-hidden>
        {numbers}
      </pre>
      {highlighted ? (
        <pre>
          <code dangerouslySetInnerHTML={{ __html: highlighted }} />
        </pre>
      ) : (
        <pre>
          <code>{text}</code>
        </pre>
      )}
    </div>
  );
}
