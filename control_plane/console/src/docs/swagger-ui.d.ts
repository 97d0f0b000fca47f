// What the viewer takes; it comes without types.
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface Options {
    url: string;
    dom_id: string;
    deepLinking: boolean;
    displayRequestDuration: boolean;
    docExpansion: "list" | "full" | "none";
    tryItOutEnabled: boolean;
    validatorUrl: string | null;
  }
  export default function SwaggerUI(options: Options): void;
}
