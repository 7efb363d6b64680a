/** The plan that an agent presents, as rendered markdown and as its source. */

import './plan.css';
import { useState } from 'preact/hooks';
import { Markdown } from './markdown.tsx';
import { isTooLongForMarkdown } from '../content/markdown-length.ts';
import type { ArgumentField } from '../content/tool-arguments.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { ArgumentList } from './tool-content.tsx';

/** Can also show the source, because rendered markdown hides addresses of links and invisible characters. */
export function Plan({ plan, otherFields }: { plan: string; otherFields: ArgumentField[] }) {
  const [showsSource, setShowsSource] = useState(false);
  const isLong = isTooLongForMarkdown(plan);
  return (
    <div class="plan">
      {showsSource || isLong ? (
        <pre class="output">
          <EscapedText text={plan} />
        </pre>
      ) : (
        <Markdown text={plan} />
      )}
      {!isLong && (
        <button type="button" class="button quiet plan-source" aria-pressed={showsSource} onClick={() => setShowsSource(!showsSource)}>
          {showsSource ? 'Show as a document' : 'Show as text'}
        </button>
      )}
      <ArgumentList fields={otherFields} />
    </div>
  );
}
