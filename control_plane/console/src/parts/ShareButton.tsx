/** Make a viewer's link and copy it; where copying isn't allowed, show it. */
import { useEffect, useRef, useState } from "react";
import { copyText } from "./copy";

const SAID_FOR_MS = 4_000;

type Said =
  | { readonly kind: "nothing" | "making" | "copied" | "failed" }
  | { readonly kind: "shown"; readonly link: string };

export function ShareButton({ makeLink }: { makeLink(): Promise<string> }) {
  const [said, setSaid] = useState<Said>({ kind: "nothing" });
  useEffect(() => {
    if (said.kind !== "copied" && said.kind !== "failed") return undefined;
    const timer = setTimeout(() => setSaid({ kind: "nothing" }), SAID_FOR_MS);
    return () => clearTimeout(timer);
  }, [said]);

  const share = async (): Promise<void> => {
    setSaid({ kind: "making" });
    try {
      const link = await makeLink();
      setSaid((await copyText(link)) ? { kind: "copied" } : { kind: "shown", link });
    } catch {
      setSaid({ kind: "failed" });
    }
  };
  return (
    <>
      <button type="button" disabled={said.kind === "making"} onClick={() => void share()}>
        {said.kind === "copied" ? "Copied" : "Share"}
      </button>
      {said.kind === "shown" && (
        <LinkBox link={said.link} onClose={() => setSaid({ kind: "nothing" })} />
      )}
      {(said.kind === "copied" || said.kind === "failed") && (
        <p className="link-box small" role="status">
          {said.kind === "copied"
            ? "Whoever opens the link can watch. It is for one person: press Share again for the next."
            : "No link could be made. Try again."}
        </p>
      )}
    </>
  );
}

function LinkBox({ link, onClose }: { link: string; onClose(): void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  return (
    // Here the mouse has to reach the field, which the bar otherwise prevents.
    <div className="link-box" onMouseDown={(event) => event.stopPropagation()}>
      <label className="small" htmlFor="viewer-link">
        Copy this link. It is for one person.
      </label>
      <input id="viewer-link" ref={field} type="text" readOnly value={link} />
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
}
