/** One file, with its code coloured. */

import { Download } from 'lucide-preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { contentKind } from '../content/file.ts';
import { highlight } from '../content/highlight.ts';
import { contentOf } from '../state/workspace.ts';
import { Failure, sizeOf, Skeleton } from '../ui/pieces.tsx';
import { useRead } from '../ui/use-read.ts';

/** The file at a path. */
export function FileViewer({ id, path }: { id: string; path: string }) {
  const { value, error, again } = useRead(`${id} ${path}`, () => contentOf(id, path));
  const name = path.slice(path.lastIndexOf('/') + 1);
  const url = useObjectUrl(value, name);
  const content = useMemo(() => value && contentKind(name, value), [value, name]);
  return (
    <article class="file" aria-label={path}>
      <header class="spread">
        <h2 class="mono ellipsis" title={path}>
          {path}
        </h2>
        <span class="row">
          {value && <span class="muted small">{sizeOf(value.length)}</span>}
          <a class="button quiet icon" href={url} download={name} aria-label={`Download ${name}`}>
            <Download size={18} aria-hidden />
          </a>
        </span>
      </header>
      {error && <Failure text={error} onRetry={again} />}
      {!value && !error && <Skeleton label="Reading the file" lines={8} />}
      {content?.kind === 'text' && <Code text={content.text} name={name} />}
      {content?.kind === 'image' && url && <img class="file-image" src={url} alt={name} />}
      {content?.kind === 'binary' && <p class="empty">This is no text. You can download it.</p>}
    </article>
  );
}

/** An address of bytes in this browser, as long as they are shown. */
function useObjectUrl(bytes: Uint8Array<ArrayBuffer> | undefined, name: string): string | undefined {
  const [held, setHeld] = useState<{ bytes: Uint8Array; url: string }>();
  useEffect(() => {
    if (!bytes) return undefined;
    const content = contentKind(name, bytes);
    const made = URL.createObjectURL(new Blob([bytes], { type: content.kind === 'image' ? content.type : 'application/octet-stream' }));
    setHeld({ bytes, url: made });
    return () => URL.revokeObjectURL(made);
  }, [bytes, name]);
  // Until the address of these is made, that of others stands here.
  return held?.bytes === bytes ? held?.url : undefined;
}

/** Code with the numbers of its lines. In what `highlight` answers everything but the colouring is escaped. */
function Code({ text, name }: { text: string; name: string }) {
  const [coloured, setColoured] = useState<string | null>(null);
  useEffect(() => void highlight(text, name).then(setColoured), [text, name]);
  const count = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  const numbers = useMemo(() => Array.from({ length: count }, (_, at) => at + 1).join('\n'), [count]);
  return (
    <div class="code" tabIndex={0} role="region" aria-label="Content">
      <pre class="line-numbers" aria-hidden>
        {numbers}
      </pre>
      {coloured === null ? (
        <pre>
          <code>{text}</code>
        </pre>
      ) : (
        <pre>
          <code dangerouslySetInnerHTML={{ __html: coloured }} />
        </pre>
      )}
    </div>
  );
}
