/** How is a picture added? Dropped on the field, pasted anywhere on the page, or chosen. */
import { type DragEvent, useCallback, useEffect, useState } from "react";
import { readImage } from "./read-image";

interface Props {
  readonly image: string | null;
  onImage(image: string | null): void;
}

export function ImageField({ image, onImage }: Props) {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [over, setOver] = useState(false);

  const take = useCallback(
    async (file: File | null | undefined): Promise<void> => {
      if (!file) return;
      const read = await readImage(file);
      setProblem(read.problem);
      if (read.image === null) return;
      setName(file.name);
      onImage(read.image);
    },
    [onImage],
  );

  useEffect(() => {
    const paste = (event: ClipboardEvent): void => {
      const file = event.clipboardData?.files[0];
      if (file === undefined) return;
      event.preventDefault();
      void take(file);
    };
    window.addEventListener("paste", paste);
    return () => window.removeEventListener("paste", paste);
  }, [take]);

  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    void take(event.dataTransfer.files[0]);
  };

  return (
    <div className="field">
      <div
        className={over ? "drop over" : "drop"}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        {image === null ? <span className="plus" aria-hidden="true" /> : <img src={image} alt="" />}
        <span className="grow small">
          {image === null ? "Add a picture: drop, paste or choose" : name || "Your picture"}
        </span>
        <input
          type="file"
          accept="image/*"
          aria-label="Picture (optional)"
          onChange={(event) => {
            void take(event.target.files?.[0]);
            event.target.value = "";
          }}
        />
        {image !== null && (
          <button
            type="button"
            className="plain small"
            onClick={() => {
              setName("");
              onImage(null);
            }}
          >
            Remove
          </button>
        )}
      </div>
      {problem !== null && (
        <p className="small tone-bad" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}
