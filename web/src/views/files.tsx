/** The files of the session's directory: a tree or what a search finds on one side, a file on the other. */

import './files.css';
import { ArrowLeft } from 'lucide-preact';
import { useState } from 'preact/hooks';
import { useLocation, useSearchParams } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import { findFiles } from '../state/workspace.ts';
import { Failure, Skeleton } from '../ui/pieces.tsx';
import { Search } from '../ui/search.tsx';
import { useRead } from '../ui/use-read.ts';
import { FileTree } from './file-tree.tsx';
import { FileViewer } from './file-viewer.tsx';

/** The files. The open one stands in the address. */
export function Files({ session }: { session: Session }) {
  const { id } = session;
  const [params] = useSearchParams();
  const [, navigate] = useLocation();
  const [query, setQuery] = useState('');
  const open = params.get('path');
  const show = (path: string | null) => navigate(`/sessions/${id}/files${path === null ? '' : `?path=${encodeURIComponent(path)}`}`);
  return (
    <div class="files" data-open={open !== null}>
      <div class="files-side">
        <Search label="Search files" placeholder="Search files by name" value={query} onChange={setQuery} />
        {query.trim() === '' ? <FileTree id={id} open={open} onOpen={show} /> : <Found id={id} query={query.trim()} onOpen={show} />}
      </div>
      <div class="files-main">
        {open === null ? (
          <p class="empty">Choose a file to read it here.</p>
        ) : (
          <>
            <button type="button" class="button quiet files-back" onClick={() => show(null)}>
              <ArrowLeft size={18} aria-hidden /> All files
            </button>
            <FileViewer key={open} id={id} path={open} />
          </>
        )}
      </div>
    </div>
  );
}

function Found({ id, query, onOpen }: { id: string; query: string; onOpen: (path: string) => void }) {
  const { value, error, again } = useRead(`${id} ${query}`, () => findFiles(id, query));
  if (error) return <Failure text={error} onRetry={again} />;
  if (!value) return <Skeleton label="Searching" />;
  if (value.length === 0) return <p class="empty">No file's name has “{query}”.</p>;
  return (
    <ul role="list" class="found" aria-label="Found files">
      {value.map((path) => (
        <li key={path}>
          <button type="button" onClick={() => onOpen(path)}>
            <span>{path.slice(path.lastIndexOf('/') + 1)}</span>
            <span class="mono muted ellipsis">{path}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
